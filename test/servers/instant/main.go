// Instant is an MCP server on stdio, of version 2026-07-28, that does nothing but
// answer, at once: what is measured with it is what stands before it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
)

const (
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"instant","version":"1"}}}`
	tools      = `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"public"}`
)

func main() {
	if err := serve(bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<16)); err != nil {
		log.Fatal(err)
	}
}

func serve(in *bufio.Reader, out *bufio.Writer) error {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return out.Flush() // standard input has ended
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments struct {
					Text json.RawMessage `json:"text"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		switch {
		case m.ID == nil: // a notification
		case m.Method == "tools/call":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%s}]}}`+"\n", m.ID, m.Params.Arguments.Text)
		case m.Method == "server/discover":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, discovered)
		case m.Method == "tools/list":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, tools)
		default:
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no such method"}}`+"\n", m.ID)
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}
