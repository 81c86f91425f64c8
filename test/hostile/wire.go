package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Wire is a network without sockets: an http.RoundTripper that hands requests to
// a handler and its answers back, byte for byte as they are written. It makes
// 100,000 rounds a matter of a minute. What is written waits until it is read.
type Wire struct{ Handler http.Handler }

// RoundTrip plays one request out.
func (n Wire) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out, feed := io.Pipe()
	w := &wireWriter{header: http.Header{}, feed: feed, begun: make(chan struct{})}
	// A client that goes away closes both directions.
	stop := context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(context.Cause(r.Context())) })
	go func() {
		defer cancel()
		defer stop()
		defer func() {
			if p := recover(); p != nil {
				w.err = fmt.Errorf("the connection was cut: %v", p)
				w.once.Do(func() { close(w.begun) })
				_ = feed.CloseWithError(w.err)
			}
		}()
		n.Handler.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
		_ = feed.Close()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		<-w.begun // the handler has ended
	}
	if w.err != nil && w.status == 0 {
		return nil, w.err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &wireBody{out, cancel}, ContentLength: -1, Request: r,
	}, nil
}

type wireBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *wireBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

type wireWriter struct {
	header, sent http.Header
	status       int
	feed         *io.PipeWriter
	once         sync.Once
	begun        chan struct{} // closed when status and sent, or err, are set
	err          error
}

func (w *wireWriter) Header() http.Header { return w.header }

func (w *wireWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

func (w *wireWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.feed.Write(b)
}

func (w *wireWriter) Flush() { w.WriteHeader(http.StatusOK) }
