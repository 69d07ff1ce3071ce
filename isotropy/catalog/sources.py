"""The papers that the measures come from."""

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
