"""The live cluster: what the API server's watches say, as pods and as a state that is always current."""
