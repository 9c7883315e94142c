// Builds the documentation as a site: README.md, CONTRIBUTING.md, CHANGELOG.md and docs/, as they are.
import { copyFileSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'
import navigation from '../navigation.json' with { type: 'json' }

const root = fileURLToPath(new URL('../../..', import.meta.url))
const address = (page) => page.replace('README.md', 'index.md')
const title = (page) => readFileSync(join(root, page), 'utf8').match(/^# (.*)/)[1]

const listed = Object.values(navigation).flat()
for (const file of readdirSync(join(root, 'docs'), { recursive: true })) {
  if (file.endsWith('.md') && !listed.includes('docs/' + file)) {
    throw new Error(`tools/site/navigation.json: found no docs/${file}, want each page of docs/ in a section`)
  }
}

// The files that pages link to, besides pages. They are copied into the site.
const files = new Map()

// A link to a file of the repository goes to its copy. Browsers show a copy that ends in .txt, and would only download a .yaml or .go.
function fileLink(href, page) {
  const [path] = href.split('#')
  const file = normalize(join(dirname(page), path))
  if (!statSync(join(root, file), { throwIfNoEntry: false })?.isFile()) {
    throw new Error(`${page}: found a link to ${href}, want a file`)
  }
  const copy = /\.(json|svg|png)$/.test(file) ? '' : '.txt'
  files.set(file, file + copy)
  return path + copy
}

function markdown(md) {
  md.core.ruler.push('repository', ({ tokens, env }) => {
    for (const token of tokens.flatMap((t) => [t, ...(t.children ?? [])])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (token.type === 'code_inline') { // {{ }} in it is not Vue's
        token.attrSet('v-pre', '')
      } else if (token.type.startsWith('html')) { // as GitHub, Vue does not take "docs/x.svg" for a file
        token.content = token.content.replace(/(src|srcset)="(?![./]|\w+:)/g, '$1="./')
      } else if (href && !/^(\w+:|#)/.test(href)) {
        if (/\.md(#|$)/.test(href)) {
          token.attrSet('href', address(href))
        } else {
          token.attrSet('href', fileLink(href, env.relativePath))
          token.attrSet('target', '_self') // not a page
        }
      }
    }
  })
  const { fence } = md.renderer.rules
  md.renderer.rules.code_block = fence // indented code, which would not scroll
  md.renderer.rules.fence = (tokens, i, ...rest) =>
    tokens[i].info === 'mermaid' ? `<Diagram text="${md.utils.escapeHtml(tokens[i].content)}" />` : fence(tokens, i, ...rest)
}

// The pages are outside of tools/site, where vue is.
const resolveId = (id, _, { ssr }) => (ssr && /^vue(\/|$)/.test(id) ? { id, external: true } : null)

export default defineConfig({
  title: title('README.md'),
  base: process.env.BASE || '/',
  srcDir: root,
  srcExclude: ['!(docs)/**/*'],
  rewrites: { 'README.md': 'index.md' },
  outDir: join(root, 'dist/site'),
  markdown: {
    config: markdown,
    // as GitHub makes them, and TestLinks checks them
    anchor: { slugify: (heading) => heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-') },
  },
  vite: {
    plugins: [{ name: 'vue', enforce: 'pre', resolveId }],
    build: { chunkSizeWarningLimit: 1000 },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: Object.entries(navigation).map(([text, pages]) => ({
      text,
      items: pages.map((page) => ({ text: title(page), link: '/' + address(page) })),
    })),
  },
  buildEnd({ outDir }) {
    for (const [file, copy] of files) {
      mkdirSync(join(outDir, dirname(copy)), { recursive: true })
      copyFileSync(join(root, file), join(outDir, copy))
    }
  },
})
