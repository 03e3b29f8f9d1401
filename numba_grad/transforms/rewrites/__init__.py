"""Equal graphs that are cheaper to differentiate: what is replaced before a derivative is taken."""
