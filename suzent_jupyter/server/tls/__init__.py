"""The listener's TLS port and the certificate behind it.

The certificate is our own, self-signed and pinned by devices, or one the operator looks after. Either is checked every
hour and may be replaced while the port serves. Whatever goes wrong here leaves the gateway running without TLS.
"""
