"""What gateways add to a request: latency, CPU time, memory, and the time to the first token."""
