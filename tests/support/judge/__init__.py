"""The judge of capacityd's promises. It knows what users were promised, and nothing of how capacityd keeps it."""
