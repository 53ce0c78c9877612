"""Making debatable questions ready for scoring: from questions and documents to points of view with
explanations.
"""
