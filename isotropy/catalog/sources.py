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
BELL_1997 = (
    'Bell & Sejnowski (1997). The "independent components" of natural scenes are edge filters. Vision Research 37(23), '
    "3327–3338."
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
