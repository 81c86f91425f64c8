package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/style.css assets/copy.js assets/icon.svg
var assetFiles embed.FS

// assets are the files that pages refer to. Their names contain a hash of the content,
// so that browsers may cache them without limit.
type assets struct {
	prefix string            // of the paths of all pages
	byName map[string]asset  // by name with the hash
	names  map[string]string // names with the hash, by plain name
}

type asset struct {
	media   string
	content []byte
}

func readAssets(prefix string) (*assets, error) {
	a := &assets{prefix: prefix, byName: map[string]asset{}, names: map[string]string{}}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	for _, e := range entries {
		content, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:8]) + ext
		media := map[string]string{".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[ext]
		a.byName[name] = asset{mime.FormatMediaType(media, map[string]string{"charset": "utf-8"}), content}
		a.names[e.Name()] = name
	}
	return a, nil
}

func (s *Site) asset(w http.ResponseWriter, r *http.Request) {
	s.secure(w.Header(), r)
	a, ok := s.assets.byName[r.PathValue("file")]
	if !ok {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "there is no such file", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", a.media)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.content) // fails when the client has disconnected
}

// url is the path of a file on this server.
func (a *assets) url(name string) string { return a.prefix + "/assets/" + a.names[name] }
