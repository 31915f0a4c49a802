"""The discrete-event cluster on the same core that serves: what is tried here is what runs there.

Begin at `experiment.run_experiment` (policies × seeds) or `simulator.Simulation` (one run); `workloads` and
`clusters` read what they are fed, `faults` what breaks, `results` says what comes out. Nothing is imported
here, because parts of the command line use single modules without the libraries of the others.
"""
