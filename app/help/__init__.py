"""What stands at the fields of forms: a sentence, and behind it formula, source and the measures it is about.

The sentence of a setting is its description in the model that checks it, which the API's description and the comments
of a YAML file show too. Everything else is here.
"""

from app.help.help import Help
from app.help.regularizers import REGULARIZERS
from app.help.search import SEARCH
from app.help.sweep import SWEEP
from app.help.uploads import ENCODING, UPLOADS

__all__ = ["ENCODING", "REGULARIZERS", "SEARCH", "SWEEP", "UPLOADS", "Help"]
