"""Vectors judged by a task of their user: which post-processing, dimensions and storage to choose, and what it costs.

Start from ``isotropy.tasks.judge.decide``. Ground truth is in ``truth``, the list of variants in ``variants``. Search,
storage, ranking metrics and the probe are those of faiss, pytrec_eval and scikit-learn. Nothing is imported here.
"""
