"""The OpenAPI document of the server, made from its routes and the models of their bodies."""
