"""Vectors judged by a task: which post-processing, dimensions and storage to choose, and the cost in quality.

Start from ``isotropy.tasks.judge.decide``; ``truth`` holds ground truth and ``variants`` lists the variants. faiss,
pytrec_eval and scikit-learn search, rank and probe. Nothing is imported here.
"""
