"""Where candidates come from: requests in, texts out, with token counts."""
