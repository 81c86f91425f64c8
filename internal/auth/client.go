package auth

import "net/http"

// Client returns the HTTP client for a provider's other endpoints, such as those of
// the sign-in. It applies the provider's certificate authorities and rule on
// addresses as the validator does, and follows no redirects. It is nil for an unknown
// provider.
func (v *Validator) Client(provider string) *http.Client {
	for _, p := range v.providers {
		if p.Name == provider {
			return noRedirects(&http.Client{Transport: following{p.out}, Timeout: requestTimeout})
		}
	}
	return nil
}

// following sends each request with the provider's current client.
type following struct{ *outbound }

// RoundTrip implements http.RoundTripper.
func (f following) RoundTrip(r *http.Request) (*http.Response, error) {
	transport := f.current().Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return transport.RoundTrip(r)
}
