"""Read what people upload: headers first, everything capped, nothing ever unpickled or evaluated.

Embeddings go through ``upload``, ``inspection`` and ``matrix``; data sets through ``tables``; ``upload_formats`` has a
record of every format.
Every refusal is an ``isoscope.core.errors.IsoscopeError`` that says what was expected, what came and what to do.
"""
