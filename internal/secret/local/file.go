package local

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/crypto/argon2"
)

// fileVersion is that of the file's format.
const fileVersion = 1

// maxFile bounds the file, in bytes.
const maxFile = 64 << 20

// file is the content of the store's file, as JSON. A plain one has Values; a sealed one
// has Header and Data.
type file struct {
	Version int               `json:"version"`
	Values  map[string]string `json:"values,omitempty"`
	// Header is kept as its bytes, which are authenticated with the data.
	Header json.RawMessage `json:"header,omitempty"`
	// Data is nonce, ciphertext and tag of the JSON object of the values (AES-256-GCM,
	// NIST SP 800-38D).
	Data []byte `json:"data,omitempty"`
}

// header describes how the key of a sealed file is found. Exactly one of KDF and Keyring is
// set.
type header struct {
	Cipher string `json:"cipher"`
	KDF    *kdf   `json:"kdf,omitempty"`
	// Keyring is the id under which the operating system's keyring has the key.
	Keyring string `json:"keyring,omitempty"`
	// Check is derived from the key. It distinguishes a wrong password from a damaged file.
	Check []byte `json:"check"`
}

const cipherName = "aes-256-gcm"

// kdf are the parameters with which Argon2id makes the key of a password (RFC 9106).
type kdf struct {
	Name      string `json:"name"`
	Time      uint32 `json:"time"`
	MemoryKiB uint32 `json:"memoryKiB"`
	Threads   uint8  `json:"threads"`
	Salt      []byte `json:"salt"`
}

// defaultKDF is the second recommended option of RFC 9106 section 4: 64 MiB, 3 passes.
func defaultKDF() kdf {
	return kdf{Name: "argon2id", Time: 3, MemoryKiB: 64 << 10, Threads: 4}
}

// validate bounds the parameters of a file: they cost time and memory before anything
// is authenticated.
func (k *kdf) validate() error {
	if k.Name != "argon2id" || k.Time < 1 || k.Time > 20 || k.MemoryKiB < 8 || k.MemoryKiB > 1<<20 ||
		k.Threads < 1 || k.Threads > 64 || len(k.Salt) < 16 || len(k.Salt) > 64 {
		return errors.New("its key derivation is not one of this version of thv")
	}
	return nil
}

func (k *kdf) key(password string) []byte {
	return argon2.IDKey([]byte(password), k.Salt, k.Time, k.MemoryKiB, k.Threads, keySize)
}

const keySize = 32

// derive returns one of the keys that are made of the file's key (RFC 5869).
func derive(key []byte, purpose string, size int) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, "thv secrets "+purpose, size)
	if err != nil {
		panic(err) // only for sizes above 8160 bytes
	}
	return out
}

func checkOf(key []byte) []byte { return derive(key, "check", 16) }

func (h *header) opens(key []byte) bool {
	return len(key) == keySize && subtle.ConstantTimeCompare(h.Check, checkOf(key)) == 1
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(derive(key, "data", keySize))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// authenticated is the additional data: the version and the header's bytes.
func authenticated(version int, header []byte) []byte {
	return append([]byte("thv secrets "+strconv.Itoa(version)+"\n"), header...)
}

// parse decodes a file and its header, which is nil for a plain one. Errors do not quote
// the content.
func parse(content []byte) (*file, *header, error) {
	var f file
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		if len(content) == 0 || bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) && !json.Valid(content) && !bytes.HasSuffix(bytes.TrimSpace(content), []byte("}")) {
			return nil, nil, errors.New("it is cut short")
		}
		return nil, nil, errors.New("it is damaged, or not a secrets file")
	}
	if f.Version != fileVersion {
		return nil, nil, fmt.Errorf("it is of version %d, and this version of thv reads %d", f.Version, fileVersion)
	}
	if len(bytes.TrimSpace(content[dec.InputOffset():])) > 0 {
		return nil, nil, errors.New("it is damaged: something follows its content")
	}
	if f.Header == nil {
		if f.Data != nil {
			return nil, nil, errors.New("it is damaged: its header is missing")
		}
		return &f, nil, nil
	}
	if f.Values != nil {
		return nil, nil, errors.New("it is damaged: it has plain and encrypted values")
	}
	var h header
	dec = json.NewDecoder(bytes.NewReader(f.Header))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h); err != nil {
		return nil, nil, errors.New("its header is damaged")
	}
	if h.Cipher != cipherName || (h.KDF == nil) == (h.Keyring == "") {
		return nil, nil, errors.New("its header is damaged, or of another version of thv")
	}
	if h.KDF != nil {
		if err := h.KDF.validate(); err != nil {
			return nil, nil, err
		}
	}
	return &f, &h, nil
}

// errChanged: the content does not match its authentication tag.
var errChanged = errors.New("its content does not match its seal: it was changed, or it is damaged")

// open decrypts the values.
func (f *file) open(key []byte) (map[string]string, error) {
	gcm, err := aead(key)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, nil, f.Data, authenticated(f.Version, f.Header))
	if err != nil {
		return nil, errChanged
	}
	var values map[string]string
	if err := json.Unmarshal(plain, &values); err != nil {
		return nil, errChanged // only thv has sealed it
	}
	return values, nil
}

// encode returns the file's content. A nil header writes a plain file.
func encode(values map[string]string, h *header, key []byte) ([]byte, error) {
	f := file{Version: fileVersion}
	if h == nil {
		f.Values = values
	} else {
		var err error
		if f.Header, err = json.Marshal(h); err != nil {
			return nil, err
		}
		plain, err := json.Marshal(values)
		if err != nil {
			return nil, err
		}
		gcm, err := aead(key)
		if err != nil {
			return nil, err
		}
		f.Data = gcm.Seal(nil, nil, plain, authenticated(f.Version, f.Header))
	}
	content, err := json.Marshal(f)
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("the secrets would be larger than %d bytes together", maxFile)
	}
	return append(content, '\n'), err
}

// passwordHeader returns the header of a new file that a password opens, and its key.
func passwordHeader(k kdf, password string) (*header, []byte) {
	k.Salt = make([]byte, 16)
	rand.Read(k.Salt) // never fails
	key := k.key(password)
	return &header{Cipher: cipherName, KDF: &k, Check: checkOf(key)}, key
}

// keyringHeader returns the header of a new file whose key is in the keyring, and the key.
func keyringHeader() (*header, []byte) {
	random := make([]byte, 12+keySize)
	rand.Read(random) // never fails
	key := random[12:]
	return &header{Cipher: cipherName, Keyring: base64.RawURLEncoding.EncodeToString(random[:12]), Check: checkOf(key)}, key
}
