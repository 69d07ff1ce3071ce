"""Help texts for the fields of the upload forms."""

from app.db.options.option import Help
from isoscope.files.upload_formats import listed_rows

UPLOADS = {
    "train": Help(
        f"Training rows: {listed_rows()}",
        more="A header line, then one row per line: one or two text columns, and one column of classes, scores or "
        "answers.",
    ),
    "validation": Help(
        "Rows to validate on, never trained on: a file with the same columns",
        more="Its labels must occur in the train file. Texts that occur in both files inflate every score; the data "
        "set page counts them.",
    ),
    "test": Help(
        "Rows for the final score: a file with the same columns, labels included",
        more="Every run is scored on these rows. Scores stay sealed until you freeze your choice and open them.",
    ),
    "test_fraction": Help(
        "Fraction of the train rows to hold out for testing, at most 0.5. Empty: none.",
        more="Rows that share a text stay together. Rows that share a text with the validation file are not held out.",
    ),
    "split_seed": Help("Seed of the held-out rows."),
    "split_column": Help("The column that names the split of each row. Then upload the train file alone."),
    "split_train": Help("Separate several with commas."),
    "split_validation": Help("For example: validation, dev."),
    "split_test": Help("Empty: rows marked test, if any."),
    "quoting": Help(
        "How to read quotes in .tsv files.",
        more="Detect: quotes enclose cells if every quoted cell is well formed and at least one needs its quotes, as "
        "pandas and spreadsheets write them. Otherwise quotes are part of the text, as in GLUE.",
    ),
    "dataset_name": Help("Empty: the name of the train file."),
    "hub_name": Help(
        "A worker downloads it from the Hugging Face Hub.",
        more="GLUE tasks and SQuAD, each at a fixed revision.",
        source="Wang, Singh, Michael, Hill, Levy & Bowman (2019). GLUE. ICLR 2019.",
    ),
    "texts": Help(more="A .txt file has one text per line. For a table, you choose the columns next."),
    "vectors": Help(
        more="A matrix of n rows and d columns. You see a preview before anything is measured.",
        measures=("isoscore",),
    ),
    "annotations": Help(more="Names identify rows. Labels group them.", measures=("silhouette",)),
    "file_name": Help("Empty: the name of the file."),
    "split": Help("Which file of the data set to encode."),
}
