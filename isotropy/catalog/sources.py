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
