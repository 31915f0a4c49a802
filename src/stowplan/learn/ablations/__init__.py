"""What parts of the network are worth: networks that lack one, taught the same by the same steps."""
