package externalauth

// Secrets returns every reference of x.
func (x *EmbeddedAuthServer) Secrets() []SecretRef {
	refs := append([]SecretRef{}, x.SigningKeySecretRefs...)
	refs = append(refs, x.HMACSecretRefs...)
	add := func(ref *SecretRef) {
		if ref != nil {
			refs = append(refs, *ref)
		}
	}
	if x.Storage != nil && x.Storage.Redis != nil {
		r := x.Storage.Redis
		if r.ACLUserConfig != nil {
			add(r.ACLUserConfig.UsernameSecretRef)
			add(r.ACLUserConfig.PasswordSecretRef)
		}
		for _, tls := range []*RedisTLS{r.TLS, r.SentinelTLS} {
			if tls != nil {
				add(tls.CACertSecretRef)
			}
		}
	}
	for i := range x.UpstreamProviders {
		u := &x.UpstreamProviders[i]
		if u.OIDC != nil {
			add(u.OIDC.ClientSecretRef)
		}
		if u.OAuth2 != nil {
			add(u.OAuth2.ClientSecretRef)
			if u.OAuth2.DCR != nil {
				add(u.OAuth2.DCR.InitialAccessTokenRef)
			}
		}
	}
	return refs
}
