"""Training penalties: torch modules that take points [n, d] and return a scalar to add to the loss.

For each, lam > 0 asks for more isotropy and lam < 0 for less. docs/regularizers.md compares them.

- ``istar.IStar``: IsoScore* of all tokens, with a shrinkage covariance;
- ``unbiased_istar.UnbiasedIStar``: the bias-corrected IsoScore of one vector a text, layer by layer;
- ``cosreg.CosReg``: the mean cosine of all pairs;
- ``persistent_entropy.PersistentEntropy``: how even the bars of a batch are;
- ``spectrum_control.SpectrumControl``: how even the singular values of an embedding matrix are.

With ``across_processes`` a penalty is that of the points of all processes of a run: see ``isotropy.distributed``.
"""
