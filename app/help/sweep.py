"""What is behind the settings of a sweep."""

from app.help import sources
from app.help.help import Help, described
from app.services.sweeps import SweepRequest
from isotropy.catalog.sources import ATIENZA_2019, KUDRIASHOV_2025, RUDMAN_2024

TASK_AND_MODEL = {
    "dataset_id": Help(more="Upload one on the page of data sets, or name a task of the Hub there."),
    "task": Help(
        more="Classification: one of a few classes, by cross-entropy. Regression: a number, by the squared error. "
        "Span: where in the context the answer begins and ends, as in SQuAD.",
        source=sources.SQUAD,
    ),
    "text_columns": Help(more="A pair is read as one input, with the model’s separator between the two texts."),
    "label_column": Help(
        more="Classes: at most 200, and none in the validation rows that no training row has. Numbers: a finite one in "
        'every row. Answers: text and where it begins, as {"text": ["in 1976"], "answer_start": [42]}.'
    ),
    "metric": Help(
        formula="accuracy = right / all. F1 = 2 P R / (P + R), of the second of two classes, of more the mean over "
        "them. Matthews = (TP TN − FP FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN)). Exact match and F1 of the words: "
        "the answer beside the best of the right ones",
        more="Matthews correlation is 0 for a model that always says one class, however good its accuracy looks. It is "
        "undefined where all validation rows have one label.",
        source=f"{sources.MATTHEWS} Answers: {sources.SQUAD}",
    ),
    "model": Help(
        more="Encoders and causal models with a head for the task. all-MiniLM-L6-v2 comes with Isoscope and needs no "
        "network."
    ),
    "name": Help(more="It can be searched for, and files that are downloaded are called by it."),
}

PENALTY = {
    "regularizers": Help(
        formula="loss of the task + λ × penalty",
        more="A run has one swept regularizer. All runs of one seed begin with the same weights and read the rows in "
        "the same order, so that only the penalty differs.",
    ),
    "lambdas": Help(
        formula="loss + λ (1 − IsoScore★) for I-STAR; for each regularizer its penalty times λ",
        more="λ = 0 is plain training and is always run, to compare with. Values of one regularizer say nothing of "
        "those of another. The paper tries −5 to 5, and finds that less isotropy often helps.",
        source=RUDMAN_2024,
        measures=("isoscore_star",),
    ),
    "zetas": Help(
        formula="S = (1 − ζ) S_X + ζ S_S, S_X of the batch, S_S the shrinkage covariance",
        more="A batch has too few tokens to tell its covariance, so its score is noisy; S_S is of very many and "
        "steady. The gradient passes through S_X alone and shrinks by 1 − ζ: compare λ at one ζ only. The paper tries "
        "0.2 to 0.8; its section 3 exchanges the weights, its algorithm and code are followed here.",
        source=f"{RUDMAN_2024} Algorithm 1.",
        measures=("isoscore_star",),
    ),
    "seeds": Help(
        more="With one seed a difference may be chance: means have error bars from two on. Six are the least with "
        "which one λ can be told from λ = 0 at p < 0.05, seven where two or three are looked at. The papers have five."
    ),
    "layers": Help(
        more="I-STAR sees all layers as one cloud, the bias-corrected form all of them one by one, CosReg and "
        "persistent entropy the last. Several are written 1, 6, 12.",
        source=f"{RUDMAN_2024} {KUDRIASHOV_2025}",
    ),
    "points": Help(
        more="Tokens of one text depend on each other, so the bias-corrected I-STAR cannot take them. The token that "
        "stands for a text is the first of an encoder and the last of a causal model.",
        source=f"Tokens: {RUDMAN_2024} One vector a text: {KUDRIASHOV_2025}",
    ),
    "include_padding": Help(
        more="Padding says nothing of a text, and how much there is depends on the longest of a batch.",
        source=RUDMAN_2024,
    ),
    "token_fraction": Help(
        more="The penalty’s time grows with the number of tokens: 0.25 makes it about four times as fast, and noisier."
    ),
    "shrinkage_points": Help(
        formula="S_S, the covariance of so many tokens over all layers",
        more="250,000 in the paper. Of a small data set there are all that it has.",
        source=RUDMAN_2024,
    ),
    "shrinkage_refresh": Help(
        more="The model changes while it is trained, and with it S_S. The paper estimates it anew at each epoch; the "
        "moving average costs no further pass over the rows.",
        source=RUDMAN_2024,
    ),
    "shrinkage_every": Help(more="Read only with “anew every so many steps”. Each estimate is a pass over rows."),
    "shrinkage_momentum": Help(
        formula="S_S ← m S_S + (1 − m) S_X at each step, m this number",
        more="Read only with the moving average. 0.99 looks back over about 100 steps.",
    ),
    "entropy_bars": Help(
        formula="H = −Σ p log p over the chosen bars, p = length / sum of lengths",
        more="Prominent bars are the longest by Atienza's rule; one Gaussian cloud has many too. Where a single "
        "bar is prominent there is no gradient; all bars have one from three vectors on.",
        source=f"{KUDRIASHOV_2025} The rule: {ATIENZA_2019}",
        measures=("prominent_bars", "persistent_entropy"),
    ),
    "entropy_by_label": Help(
        formula="Σ over classes of H",
        more="Of the whole batch, gaps between classes are made as even as those within them.",
        source=KUDRIASHOV_2025,
        measures=("persistent_entropy",),
    ),
    "entropy_cluster_weight": Help(
        formula="− λ H + w × mean length of the bars that are not chosen, w this number",
        more="It is in the units of the vectors, and shortens whatever the sign of λ.",
        source=KUDRIASHOV_2025,
    ),
    "beside": Help(
        formula="loss + λ_1 × first penalty + λ_2 × second penalty",
        more="As for I-STAR swept over λ while CosReg stays at 1. Empty: not added.",
    ),
}

OPTIMIZATION = {
    "epochs": Help(more="3 to 5 in I-STAR’s paper, 10 in that of persistent entropy."),
    "batch_size": Help(
        more="A penalty of more rows is less noisy, so λ of different batch sizes is not the same: a bigger batch is "
        "not just faster. If memory runs out, the batch is halved and two are accumulated, which the run then says."
    ),
    "accumulation": Help(
        formula="gradient = mean over the batches of (loss + λ × penalty of that batch)",
        more="So the task learns as from a batch of all rows, but a penalty still sees the rows of one batch at a "
        "time: 2 batches of 16 are not 1 batch of 32 for it.",
    ),
    "optimizer": Help(source=f"{sources.ADAM} {sources.ADAMW}"),
    "learning_rate": Help(more="1e-5 to 5e-5 are usual for fine-tunes of BERT; I-STAR’s paper tries these."),
    "warmup": Help(formula="rate × step / warm-up steps, until these are over"),
    "schedule": Help(more="Constant in I-STAR’s paper.", source=f"Half a cosine: {sources.COSINE}"),
    "weight_decay": Help(formula="w ← w − rate × decay × w for AdamW", source=sources.ADAMW),
    "precision": Help(
        more="Half precision is faster and smaller on a GPU. float16 needs one; bfloat16 has the range of float32 with "
        "fewer digits.",
        source=sources.MIXED,
    ),
    "gradient_checkpointing": Help(source=sources.CHECKPOINTING),
    "processes": Help(
        more="A penalty is that of all processes’ rows as one cloud. A step reads batch size × accumulation × "
        "processes rows."
    ),
    "max_length": Help(more="The time of a step grows with it. A dry run tells how many rows are cut."),
    "stride": Help(more="So that an answer at the end of one window stands whole in another. It is below the window."),
    "train_rows": Help(more="The same rows in every run of the experiment."),
    "validation_rows": Help(more="Fewer rows make performance less certain: of 100, accuracy is known to about 0.1."),
}

WATCHING = {
    "probe_every": Help(
        more="A look measures every layer on some validation rows. A look before the first step and one after the last "
        "come on top.",
        measures=("isoscore_star", "mean_cosine", "twonn"),
    ),
    "evaluation_zeta": Help(
        formula="IsoScore★ of S = (1 − ζ) S_X + ζ S_S, here S_X of the validation tokens",
        more="Apart from the ζ of training, so that runs of different ζ are measured alike. 0, of very many tokens, is "
        "the plain IsoScore.",
        source=RUDMAN_2024,
        measures=("isoscore_star", "isoscore"),
    ),
    "checkpoint": Help(more="The best is that of the best metric on the selection rows below."),
    "selection": Help(
        more="Rows that choose flatter what they choose: on the validation rows the reported performance is "
        "optimistic. Of the training rows a tenth, the same in every run, is then not trained on.",
    ),
    "evaluate_every": Help(more="Read only where weights are chosen or runs are stopped early."),
    "patience": Help(source=sources.PRECHELT),
    "export": Help(more="In float32 that is four bytes for every weight of every run; a dry run tells how much."),
    "grid": Help(
        more="The values here stand in for the setting’s own field above. A regularizer’s own settings are tried in "
        "its runs alone, all others in the baseline too.",
    ),
}

SWEEP = described(SweepRequest, TASK_AND_MODEL | PENALTY | OPTIMIZATION | WATCHING)
