"""The papers that measures, methods and regularizers come from."""

RUDMAN_2022 = (
    "Rudman, Gillman, Rayne & Eickhoff (2022). IsoScore: Measuring the Uniformity of Embedding Space "
    "Utilization. Findings of ACL 2022, 3325–3339."
)
RUDMAN_2024 = "Rudman & Eickhoff (2024). Stable Anisotropic Regularization. ICLR 2024."
ETHAYARAJH_2019 = (
    "Ethayarajh (2019). How Contextual are Contextualized Word Representations? Comparing the Geometry of "
    "BERT, ELMo, and GPT-2 Embeddings. EMNLP-IJCNLP 2019, 55–65."
)
RAZZHIGAEV_2024 = (
    "Razzhigaev, Mikhalchuk, Goncharova, Oseledets, Dimitrov & Kuznetsov (2024). The Shape of Learning: "
    "Anisotropy and Intrinsic Dimensions in Transformer-Based Models. Findings of EACL 2024, 868–874."
)
TIMKEY_2021 = (
    "Timkey & van Schijndel (2021). All Bark and No Bite: Rogue Dimensions in Transformer Language Models "
    "Obscure Representational Quality. EMNLP 2021, 4527–4546."
)
MU_2018 = (
    "Mu & Viswanath (2018). All-but-the-Top: Simple and Effective Postprocessing for Word Representations. ICLR 2018."
)
BELL_1997 = (
    'Bell & Sejnowski (1997). The "independent components" of natural scenes are edge filters. Vision Research 37(23), '
    "3327–3338."
)
ARTETXE_2018 = (
    "Artetxe, Labaka, Lopez-Gazpio & Agirre (2018). Uncovering Divergent Linguistic Information in Word Embeddings "
    "with Lessons for Intrinsic and Extrinsic Evaluation. CoNLL 2018."
)
KESSY_2018 = (
    "Kessy, Lewin & Strimmer (2018). Optimal Whitening and Decorrelation. The American Statistician 72(4), 309–314."
)
DIERA_2024 = (
    "Diera, Galke & Scherp (2024). Isotropy Matters: Soft-ZCA Whitening of Embeddings for Semantic Code Search. "
    "arXiv:2411.17538."
)
RAJAEE_2021 = (
    "Rajaee & Pilehvar (2021). A Cluster-based Approach for Improving Isotropy in Contextual Embedding Space. "
    "ACL-IJCNLP 2021 (Short Papers), 575–584."
)
LIANG_2021 = (
    "Liang, Cao, Zheng, Ren & Gao (2021). Learning to Remove: Towards Isotropic Pre-trained BERT Embedding. "
    "ICANN 2021, Part V, 448–459."
)
LI_2020 = (
    "Li, Zhou, He, Wang, Yang & Li (2020). On the Sentence Embeddings from Pre-trained Language Models. "
    "EMNLP 2020, 9119–9130."
)
KINGMA_2018 = "Kingma & Dhariwal (2018). Glow: Generative Flow with Invertible 1x1 Convolutions. NeurIPS 2018."
GAO_2017 = (
    "Gao, Trautmann, Yu, Santhanam, Ryu, Shenoy & Ganguli (2017). A theory of multineuronal dimensionality, "
    "dynamics and measurement. bioRxiv 214262."
)
KOVALEVA_2021 = (
    "Kovaleva, Kulshreshtha, Rogers & Rumshisky (2021). BERT Busters: Outlier Dimensions that Disrupt "
    "Transformers. Findings of ACL-IJCNLP 2021, 3392–3405."
)
RUDMAN_2023 = (
    "Rudman, Chen & Eickhoff (2023). Outlier Dimensions Encode Task Specific Knowledge. EMNLP 2023, 14596–14605."
)
IGLEWICZ_1993 = (
    "Iglewicz & Hoaglin (1993). How to Detect and Handle Outliers. ASQC Basic References in Quality Control 16. "
    "ASQC Quality Press."
)
CHEN_2010 = (
    "Chen, Zhang & Zhong (2010). Tests for High-Dimensional Covariance Matrices. Journal of the American "
    "Statistical Association 105(490), 810–819."
)
HIMENO_2014 = (
    "Himeno & Yamada (2014). Estimations for some functions of covariance matrix in high dimension under "
    "non-normality and its applications. Journal of Multivariate Analysis 130, 27–44."
)
CHUN_2026 = (
    "Chun, Canatar, Chung & Lee (2026). Estimating Dimensionality of Neural Representations from Finite Samples. "
    "ICLR 2026."
)
ROY_2007 = "Roy & Vetterli (2007). The Effective Rank: A Measure of Effective Dimensionality. EUSIPCO 2007, 606–610."
GARRIDO_2023 = (
    "Garrido, Balestriero, Najman & LeCun (2023). RankMe: Assessing the Downstream Performance of Pretrained "
    "Self-Supervised Representations by Their Rank. ICML 2023, 10929–10974."
)
RUDELSON_2007 = (
    "Rudelson & Vershynin (2007). Sampling from large matrices: An approach through geometric functional analysis. "
    "Journal of the ACM 54(4), article 21."
)
AGRAWAL_2022 = (
    "Agrawal, Mondal, Ghosh & Richards (2022). α-ReQ: Assessing Representation Quality in Self-Supervised "
    "Learning by Measuring Eigenspectrum Decay. NeurIPS 2022."
)
STRINGER_2019 = (
    "Stringer, Pachitariu, Steinmetz, Carandini & Harris (2019). High-dimensional geometry of population responses "
    "in visual cortex. Nature 571, 361–365."
)
JOLLIFFE_2002 = "Jolliffe (2002). Principal Component Analysis. 2nd edition, Springer."
WANG_2020 = (
    "Wang & Isola (2020). Understanding Contrastive Representation Learning through Alignment and Uniformity on the "
    "Hypersphere. ICML 2020, 9929–9939."
)
FANG_2024 = "Fang, Li, Sun & Wang (2024). Rethinking the Uniformity Metric in Self-Supervised Learning. ICLR 2024."
ROUSSEEUW_1987 = (
    "Rousseeuw (1987). Silhouettes: A graphical aid to the interpretation and validation of cluster analysis. "
    "Journal of Computational and Applied Mathematics 20, 53–65."
)
HRUSCHKA_2006 = (
    "Hruschka, Campello & de Castro (2006). Evolving clusters in gene-expression data. "
    "Information Sciences 176(13), 1898–1927."
)
MICKUS_2024 = "Mickus, Grönroos & Attieh (2024). Isotropy, Clusters, and Classifiers. ACL 2024 (short papers), 75–84."
EDELSBRUNNER_2002 = (
    "Edelsbrunner, Letscher & Zomorodian (2002). Topological Persistence and Simplification. Discrete & Computational "
    "Geometry 28, 511–533."
)
ATIENZA_2019 = (
    "Atienza, Gonzalez-Diaz & Rucco (2019). Persistent entropy for separating topological features from noise in "
    "Vietoris-Rips complexes. Journal of Intelligent Information Systems 52, 637–655."
)
KUDRIASHOV_2025 = (
    "Kudriashov, Karpik & Klyshinsky (2025). Shrink the longest: improving latent space isotropy with symplicial "
    "geometry. arXiv:2501.05502."
)
FACCO_2017 = (
    "Facco, d'Errico, Rodriguez & Laio (2017). Estimating the intrinsic dimension of datasets by a minimal "
    "neighborhood information. Scientific Reports 7, 12140."
)
DENTI_2022 = (
    "Denti, Doimo, Laio & Mira (2022). The generalized ratios intrinsic dimension estimator. "
    "Scientific Reports 12, 20005."
)
LEVINA_2004 = (
    "Levina & Bickel (2004). Maximum Likelihood Estimation of Intrinsic Dimension. "
    "Advances in Neural Information Processing Systems 17, 777–784."
)
MACKAY_2005 = (
    "MacKay & Ghahramani (2005). Comments on 'Maximum Likelihood Estimation of Intrinsic Dimension' by "
    "E. Levina and P. Bickel (2004). Note, inference.org.uk/mackay/dimension."
)
RADOVANOVIC_2010 = (
    "Radovanović, Nanopoulos & Ivanović (2010). Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data. "
    "Journal of Machine Learning Research 11, 2487–2531."
)
FELDBAUER_2018 = (
    "Feldbauer, Leodolter, Plant & Flexer (2018). Fast Approximate Hubness Reduction for Large High-Dimensional Data. "
    "IEEE International Conference on Big Knowledge, 358–367."
)
GAO_2019 = (
    "Gao, He, Tan, Qin, Wang & Liu (2019). Representation Degeneration Problem in Training Natural Language Generation "
    "Models. ICLR 2019."
)
SPECTRUM_CONTROL = (
    "Wang, Huang, Huang, Hu, Wang & Gu (2020). Improving Neural Language Generation with Spectrum Control. ICLR 2020."
)
