package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
)

// catalogVersions is how many versions each server has.
const catalogVersions = 3

// writeCatalog makes a registry file of n servers.
func writeCatalog(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"version":"1.0.0","meta":{"last_updated":"2026-01-01T00:00:00Z"},"data":{"servers":[`)
	for i := range n * catalogVersions {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		writeVersion(w, i)
	}
	fmt.Fprint(w, "]}}\n")
	return errors.Join(w.Flush(), f.Sync())
}

// writeVersion writes the nth document of a catalog.
func writeVersion(w io.Writer, n int) {
	i, v := n/catalogVersions, n%catalogVersions+1
	subject := subjects[i%len(subjects)]
	fmt.Fprintf(w, `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json","name":"io.github.owner-%d/%s-server-%d","title":"Server number %d","description":"Gives agents access to the %s of number %d","version":"%d.0.0","packages":[{"registryType":"npm","identifier":"@owner/server-%d","version":"%d.0.0","transport":{"type":"stdio"},"environmentVariables":[{"name":"API_TOKEN","description":"What signs in","isRequired":true,"isSecret":true}]}]}`,
		i%971, subject, i, i, subject, i, v, i, v)
}

// upstream is another registry with n servers, for a catalog that is larger than
// a registry file may be.
func upstream(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("cursor")) // 0 at first
		limit, err := strconv.Atoi(r.FormValue("limit"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		to := min(from+limit, n*catalogVersions)
		fmt.Fprint(w, `{"servers":[`)
		for i := from; i < to; i++ {
			if i > from {
				fmt.Fprint(w, ",")
			}
			fmt.Fprint(w, `{"server":`)
			writeVersion(w, i)
			fmt.Fprint(w, `,"_meta":{}}`)
		}
		next := ""
		if to < n*catalogVersions {
			next = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `],"metadata":{"count":%d,"nextCursor":%q}}`, to-from, next)
	}
}

var subjects = []string{"weather", "calendar", "files", "database", "mail", "tickets", "git", "maps", "music", "browser", "search", "payments", "wiki"}
