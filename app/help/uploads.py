"""What is behind the fields of uploads."""

from app.db.options.option import Help
from isoscope.files.upload_formats import listed_rows

UPLOADS = {
    "train": Help(
        f"The rows to learn from: {listed_rows()}",
        more="A line of column names, then a row a line: one or two columns of text, and one of classes, scores or "
        "answers.",
    ),
    "validation": Help(
        "The rows that judge, none of which is trained on: a file with the same columns",
        more="Its labels have to be those of the train file. Texts that stand in both files flatter every run; the "
        "page of the data set counts them.",
    ),
    "test": Help(
        "Rows that choose nothing: a file with the same columns, labels too",
        more="Every run is scored on it. The scores stay sealed until you freeze your choice and open them.",
    ),
    "test_fraction": Help(
        "Draws this fraction of the train rows for testing, at most 0.5. Empty: draw none.",
        more="Rows that share a text stay together, and rows that share a text with the validation file are not drawn.",
    ),
    "split_seed": Help("Which rows are drawn."),
    "split_column": Help("The column that names the split of each row. Then upload the train file alone."),
    "split_train": Help("Separate several with commas."),
    "split_validation": Help("Such as validation, dev."),
    "split_test": Help("Empty: rows that hold test, if there are any."),
    "quoting": Help(
        "How the quotes of .tsv files are read.",
        more="Detect: they enclose cells where every cell with a quote is enclosed, and one needs it, as pandas and "
        "spreadsheets write it. Otherwise they are part of the text, as in GLUE.",
    ),
    "dataset_name": Help("If empty, the train file’s name is used."),
    "hub_name": Help(
        "A worker fetches it from the Hub, which it has to be able to reach.",
        more="Tasks of GLUE and SQuAD, at a fixed revision.",
        source="Wang, Singh, Michael, Hill, Levy & Bowman (2019). GLUE. ICLR 2019.",
    ),
    "texts": Help(more="A .txt file has one text a line. Of a table the columns are chosen next."),
    "vectors": Help(
        more="A matrix of n rows and d columns. What the file holds is shown before anything is measured.",
        measures=("isoscore",),
    ),
    "annotations": Help(more="Names say which row is which; labels group rows.", measures=("silhouette",)),
    "file_name": Help("If empty, the file’s name is used."),
    "split": Help("Which of the two files of the data set."),
}
