"""Types for the few functions of plotly that Stowplan uses; plotly ships none. Figures are dictionaries."""
