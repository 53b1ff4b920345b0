"""How fast it trains beside other libraries, what each part costs, and its memory."""
