ROWS = "sentence\tother\tlabel\n" + "".join(f"text {i}\tmore {i}\t{i % 2}\n" for i in range(20))
FILMS = "\n".join(
    ["sentence\tlabel", *(f"the {'good' if i % 2 else 'bad'} film number {i}\t{i % 2}" for i in range(200)), ""]
)
FILM_FILES = {name: (f"{name}.tsv", FILMS) for name in ("train", "validation")}


def tsv(rows: str = ROWS, name: str = "train.tsv"):
    return (name, rows.encode())
