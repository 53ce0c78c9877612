"""Judge long answers to questions that have no single right answer.

Four floors, each importing only from those below it: `kernels` (numbers in, numbers out), `backends` (text to vectors
or verdicts), `metrics` (a paper's method), `lab` (data, artefacts, runner, report). Importing `nfqa` loads none.
"""

__version__ = "0.3.0"
