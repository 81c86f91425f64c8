package source

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packObject is an object as it stands in a pack (gitformat-pack(5)): a header of
// type and size, for a delta its base, and the deflated content.
func packObject(kind byte, size uint64, base []byte, content []byte) []byte {
	var out bytes.Buffer
	first := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		out.WriteByte(first | 0x80)
		first = byte(size & 0x7f)
	}
	out.WriteByte(first)
	out.Write(base)
	w := zlib.NewWriter(&out)
	_, _ = w.Write(content)
	_ = w.Close()
	return out.Bytes()
}

func pack(count uint32, objects ...[]byte) []byte {
	out := append([]byte("PACK"), 0, 0, 0, 2)
	out = binary.BigEndian.AppendUint32(out, count)
	for _, o := range objects {
		out = append(out, o...)
	}
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

func TestCheckPack_Bounds(t *testing.T) {
	const blob, refDelta = 3, 7
	hello := []byte("hello")
	base := make([]byte, 20)
	delta := func(from, to uint64) []byte {
		out := binary.AppendUvarint(nil, from)
		return binary.AppendUvarint(out, to)
	}
	thousandMegabytes := make([][]byte, 0, 12)
	for range 12 {
		thousandMegabytes = append(thousandMegabytes, packObject(refDelta, uint64(len(delta(5, 99<<20))), base, delta(5, 99<<20)))
	}
	for _, row := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"a good one", pack(1, packObject(blob, 5, nil, hello)), ""},
		{"nothing", nil, "damaged"},
		{"no pack", []byte("<html><body>hello"), "damaged"},
		{"more objects than anybody has", pack(4_000_000_000, packObject(blob, 5, nil, hello)), "the most is"},
		{"fewer objects than it says", pack(2, packObject(blob, 5, nil, hello)), "damaged"},
		{"an object that is said to be huge", pack(1, packObject(blob, 1<<40, nil, hello)), "unfolds"},
		{"an object whose size cannot be", pack(1, packObject(blob, 1<<63, nil, hello)), "damaged"},
		{"an object that is larger than it says", pack(1, packObject(blob, 5, nil, bytes.Repeat(hello, 1000))), "damaged"},
		{"a delta that makes gigabytes", pack(1, packObject(refDelta, uint64(len(delta(5, 1<<40))), base, delta(5, 1<<40))), "unfolds"},
		{"a delta that does not say what it makes", pack(1, packObject(refDelta, 1, base, []byte{0x80})), "unfolds"},
		{"many that are too much together", pack(12, thousandMegabytes...), "unfolds"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pack")
			if err := os.WriteFile(path, row.content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = openPack(t.Context(), f)
			switch {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("got %v, want %q in it", err, row.want)
			}
		})
	}
}

func FuzzPack(f *testing.F) {
	f.Add(pack(1, packObject(3, 5, nil, []byte("hello"))))
	f.Add(pack(2, packObject(3, 5, nil, []byte("hello")), packObject(7, 4, make([]byte, 20), []byte{5, 5, 0x90, 5})))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "pack")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		func() {
			// As the worker does: the library may fail inside.
			var inside error
			defer guard(&inside)
			_, _ = openPack(t.Context(), file)
		}()
	})
}
