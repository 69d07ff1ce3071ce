"""The draft of an encoding that a file of texts becomes."""

from app.db.models import Encoding
from app.db.types import new_id
from app.storage import Stored
from isoscope.files.tables import TextsDescription


def draft_of(name: str, filename: str, stored: Stored, found: TextsDescription) -> Encoding:
    """Return the draft, with an id, of texts that are stored and described."""
    return Encoding(
        id=new_id(),
        name=name,
        filename=filename,
        file_sha256=stored.sha256,
        n_texts=found.n,
        columns=found.columns,
        quoting=found.quoting,
    )
