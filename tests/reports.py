from app.db.models import FigureData

HOSTILE = "</script><script>alert(1)</script>"
PROJECTION = {"n": 2, "x": [0.0, 1.0], "y": [0.0, 1.0], "shares": [0.5, 0.25], "labels": None, "density": None}


def make_csv(cloud, n_bad=0):
    header = ",".join([f"x{i}" for i in range(8)] + ["word", "side", "other"])
    lines = [
        ",".join([f"{v:.6f}" for v in row] + [f"word{i}", "ab"[i % 2], "cde"[i % 3]]) for i, row in enumerate(cloud)
    ]
    for i in range(n_bad):
        lines[i] = "nan" + lines[i][lines[i].index(",") :]
    return "\n".join([header, *lines]).encode()


def store(context, embedding_id, **data):
    with context.sessions.begin() as session:
        for slug, document in data.items():
            session.merge(FigureData(embedding_id=embedding_id, slug=slug, data=document))
