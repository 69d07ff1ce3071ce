"""Isotropy of embeddings: measures and training penalties, in torch.

Points are rows: a cloud of n points in d dimensions is a tensor [n, d]. Start from ``isotropy.report`` (every measure
of a cloud), ``isotropy.isoscore``, ``isotropy.postprocess.methods`` or ``isotropy.regularizers.istar``. Nothing is
imported here, so that ``isotropy.catalog`` can be read without torch.
"""
