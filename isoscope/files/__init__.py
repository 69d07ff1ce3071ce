"""Read uploaded files: headers first, everything capped, nothing ever unpickled or evaluated.

Embeddings go through ``upload``, ``selection`` and ``matrix``; data sets through ``table`` and ``columns``;
``upload_formats`` has a record of every format.
A reader refuses a file by raising ``isoscope.core.errors.IsoscopeError``, whose message names the problem and the fix.
"""
