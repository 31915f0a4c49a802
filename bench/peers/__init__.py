"""Programs and adapters of the peers that Stowplan is measured against."""
