"""The discrete-event cluster on the same core that serves: what is tried here is what runs there."""
