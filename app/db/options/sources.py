"""Papers behind the settings of a fine-tune that are behind no measure."""

ADAM = "Kingma & Ba (2015). Adam: A Method for Stochastic Optimization. ICLR 2015."
ADAMW = "Loshchilov & Hutter (2019). Decoupled Weight Decay Regularization. ICLR 2019."
COSINE = "Loshchilov & Hutter (2017). SGDR: Stochastic Gradient Descent with Warm Restarts. ICLR 2017."
MIXED = "Micikevicius et al. (2018). Mixed Precision Training. ICLR 2018."
CHECKPOINTING = "Chen, Xu, Zhang & Guestrin (2016). Training Deep Nets with Sublinear Memory Cost. arXiv:1604.06174."
MATTHEWS = (
    "Matthews (1975). Comparison of the predicted and observed secondary structure of T4 phage lysozyme. Biochimica et "
    "Biophysica Acta 405(2), 442–451."
)
SQUAD = "Rajpurkar, Zhang, Lopyrev & Liang (2016). SQuAD: 100,000+ Questions for Machine Comprehension. EMNLP 2016."
PRECHELT = "Prechelt (1998). Early Stopping – But When? Neural Networks: Tricks of the Trade, 55–69."
TPE = "Bergstra, Bardenet, Bengio & Kégl (2011). Algorithms for Hyper-Parameter Optimization. NeurIPS 2011."
OPTUNA = "Akiba, Sano, Yanase, Ohta & Koyama (2019). Optuna: A Next-generation Hyperparameter Framework. KDD 2019."
