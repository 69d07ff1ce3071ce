"""What stands at the fields of uploads and at regularizers: a sentence, and behind it formula, source and measures.

The help of an option stands in its record, where the type that checks it is.
"""
