// Server is the hostile server as a program: on stdio, or, with an address, over
// streamable HTTP.
//
//	server [-modern] [-json] [-listen 127.0.0.1:8080]
//
// It does right until a tool is called whose name is a fault, such as "twice";
// tool "good" is right. See package hostile.
package main

import (
	"flag"
	"log"
	"net/http"
	"os"

	"github.com/toolhaven/toolhaven/test/hostile"
)

func main() {
	modern := flag.Bool("modern", false, "speak 2026-07-28, not 2025-11-25")
	plain := flag.Bool("json", false, "answer with JSON, not with events")
	listen := flag.String("listen", "", "serve streamable HTTP at this address")
	flag.Parse()
	if *listen == "" {
		(&hostile.Stdio{Modern: *modern, In: os.Stdin, Out: os.Stdout}).Serve(func() { os.Exit(3) })
		return
	}
	s := &http.Server{Addr: *listen, Handler: &hostile.Server{Modern: *modern, JSON: *plain}} //nolint:gosec // it has no timeouts, on purpose
	log.Fatal(s.ListenAndServe())
}
