"""Floor 4: data sets, artefacts, runner, results, figures, report."""
