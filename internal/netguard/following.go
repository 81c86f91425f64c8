package netguard

import (
	"net/http"
	"os"
	"sync"
	"time"
)

// followTime is how long files are used before they are looked at again.
const followTime = 5 * time.Second

// following is a transport that is made again when the files of its options change: a bundle
// of authorities, or a client certificate, is replaced while a process runs. While changed
// files cannot be used, the former ones stay in use. Requests in flight are not affected.
type following struct {
	opt Options

	mu      sync.Mutex
	checked time.Time
	seen    []os.FileInfo // of the files; nil for one that is not there
	current *http.Transport
}

func (f *following) stat() (all []os.FileInfo) {
	files := append(f.opt.CAFiles[:len(f.opt.CAFiles):len(f.opt.CAFiles)], f.opt.ClientCertFile, f.opt.ClientKeyFile)
	for _, file := range files {
		if file != "" {
			info, _ := os.Stat(file) // nil on error
			all = append(all, info)
		}
	}
	return all
}

// transport returns the transport with the files as they are now.
func (f *following) transport() *http.Transport {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) == 0 || time.Since(f.checked) < followTime {
		return f.current
	}
	f.checked = time.Now()
	now := f.stat()
	if sameFiles(now, f.seen) {
		return f.current
	}
	next, err := newTransport(f.opt)
	if err != nil {
		return f.current // seen is as before: it is tried again
	}
	f.current.CloseIdleConnections()
	f.current, f.seen = next, now
	return next
}

// sameFiles compares what is known of files. The kubelet replaces a file by another one, which
// the number of the file shows.
func sameFiles(a, b []os.FileInfo) bool {
	for i := range a {
		if a[i] == nil || b[i] == nil {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		if !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}
