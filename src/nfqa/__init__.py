"""Judge long answers to questions that have no single right answer.

Six folders, each importing only from those before it: `kernels` (numbers in, numbers out), `data` (files to records
and frames), `models` (text to vectors and losses), `judge` (asking a language model), `metrics` (a paper's method, from
frame to frame), `lab` (artefacts, notebooks, runner, report). Importing `nfqa` loads none.
"""

__version__ = "0.4.0"
