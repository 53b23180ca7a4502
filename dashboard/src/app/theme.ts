import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from '@mantine/core';

const glass: MantineColorsTuple = ['#e6fbf8', '#d3f3ee', '#a8e6dd', '#79d8cb', '#52ccbc', '#2bb5a5', '#149486', '#0b7a75', '#08635f', '#054a48'];

// A little blue, so that cards, fields and grounds of the dark theme belong together.
const dark: MantineColorsTuple = ['#dde3e7', '#b8c2ca', '#9aa7b1', '#6b7883', '#3a444c', '#2c343a', '#1d2429', '#171c20', '#101417', '#0b0e10'];

export const theme = createTheme({
  colors: { glass, dark },
  primaryColor: 'glass',
  primaryShade: { light: 7, dark: 7 },
  autoContrast: true,
  fontFamily: "'Inter Variable', system-ui, -apple-system, 'Segoe UI', sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SFMono-Regular', Menlo, 'DejaVu Sans Mono', monospace",
  headings: {
    fontWeight: '650',
    sizes: {
      h1: { fontSize: '1.625rem', lineHeight: '1.25' },
      h2: { fontSize: '1.125rem', lineHeight: '1.35' },
      h3: { fontSize: '0.975rem', lineHeight: '1.4' },
    },
  },
  defaultRadius: 'md',
  cursorType: 'pointer',
  components: {
    Card: { defaultProps: { withBorder: true, radius: 'lg', padding: 'lg' } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, events: { hover: true, focus: true, touch: true } } },
    // The keyboard may come to a field on its way, or back from a dialog: typing, arrows and clicks open the list.
    Select: { defaultProps: { openOnFocus: false } },
    MultiSelect: { defaultProps: { openOnFocus: false } },
    Menu: { defaultProps: { shadow: 'md', radius: 'md' } },
  },
});

// Softer grounds than the library's own; texts that stand on them keep 4.5:1 in both themes.
export const variables: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    '--mantine-color-body': '#ffffff',
    '--vetro-ground': '#f5f7f8',
    '--mantine-color-dimmed': '#5a6670',
    '--mantine-color-default-border': '#dfe4e8',
    '--mantine-color-anchor': '#0b6e69',
    '--mantine-color-error': '#c92a2a',
    '--mantine-color-placeholder': '#68737d',
    '--mantine-color-yellow-light-color': '#7a5200',
    '--mantine-color-orange-light-color': '#9a3b00',
    '--mantine-color-red-light-color': '#b3201f',
    '--mantine-color-blue-light-color': '#155a9e',
  },
  dark: {
    '--mantine-color-body': '#171c20',
    '--vetro-ground': '#101417',
    '--mantine-color-text': '#dde3e7',
    '--mantine-color-dimmed': '#9aa7b1',
    '--mantine-color-default-border': '#2c343a',
    '--mantine-color-default': '#1d2429',
    '--mantine-color-default-hover': '#252d33',
    '--mantine-color-anchor': '#52ccbc',
    '--mantine-color-error': '#ff8787',
    '--mantine-color-placeholder': '#93a0aa',
  },
});
