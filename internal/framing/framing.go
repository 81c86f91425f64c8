// Package framing closes connections on which the length of a request may be ambiguous.
//
// A request with both Content-Length and Transfer-Encoding may be an attempt of request
// smuggling: a proxy in front of the server may have read another length.
package framing

import "net/http"

// CloseChunked closes a connection after the response to a request with
// Transfer-Encoding. RFC 9112 section 6.1 requires this when Content-Length was sent too;
// net/http drops that header before a handler can see it, so the connection is closed
// after every such request.
func CloseChunked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
