package api

import (
	_ "embed" // the document
	"net/http"
)

// openAPI describes the API, for programs. A test holds the server to it and it
// to the server.
//
//go:embed openapi.json
var openAPI []byte

func serveOpenAPI(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("Access-Control-Allow-Origin", "*") // public by definition
	if anything(r.Header.Values("If-None-Match")) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(openAPI) // the caller went away
}
