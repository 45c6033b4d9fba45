"""llama.cpp. The only room that imports llama_cpp; knows neither conversations nor screens."""
