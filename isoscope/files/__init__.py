"""Read uploaded files: headers first, everything capped, nothing ever unpickled or evaluated.

Embeddings go through ``upload``, ``selection`` and ``matrix``; data sets through ``table`` and ``columns``;
``upload_formats`` has a record of every format.
Every refusal is an ``isoscope.core.errors.IsoscopeError`` that says what was expected, what was read and what to do.
"""
