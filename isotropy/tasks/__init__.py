"""Vectors judged by a task of their user: which post-processing, dimensions and storage to choose, and what it costs.

Start from ``isotropy.tasks.judge.decide``; ``truth`` holds ground truth and ``variants`` lists the variants. faiss,
pytrec_eval and scikit-learn search, rank and probe. Nothing is imported here.
"""
