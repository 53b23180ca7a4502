import { Anchor, Badge, Card, Grid, Group, List, Loader, Stack, Table, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams, useSearch } from '@tanstack/react-router';
import Markdown, { type Components } from 'react-markdown';
import { ApiError } from '~/api/client';
import { useTexts } from '~/i18n';
import { Fqn } from '~/ui/fqn';
import { Page, PageError, PageMissing } from '~/ui/page';
import { When } from '~/ui/when';
import { AddButton } from './add';
import { Logo } from './logo';
import { messages } from './messages';
import { Needs } from './needs';
import { packageQuery, readmeQuery, versionsQuery, type Package } from './queries';
import { Reference } from './reference';
import { withTables } from './tables';
import classes from './package.module.css';

interface Supplier {
  Name?: string;
  Description?: string;
  Summary?: string;
  CompanyUrl?: string | { Link?: string; Text?: string };
}

export function PackagePage() {
  const t = useTexts(messages);
  const { packageId } = useParams({ from: '/shell/catalog/$packageId' });
  const { environment } = useSearch({ from: '/shell/catalog/$packageId' });
  const shown = useQuery(packageQuery(packageId));
  const versions = useQuery(versionsQuery(shown.data?.fully_qualified_name ?? ''));
  if (shown.error instanceof ApiError && shown.error.status === 404) return <PageMissing />;
  if (shown.isLoadingError) return <PageError error={shown.error} reset={() => void shown.refetch()} />;
  if (!shown.data) return <Loader />;
  const one = shown.data;
  const supplier = one.supplier as Supplier;
  const link = typeof supplier.CompanyUrl === 'string' ? supplier.CompanyUrl : supplier.CompanyUrl?.Link;
  return (
    <Page
      title={one.name}
      aside={<Logo id={one.id} name={one.name} size={36} />}
      lead={`${one.version}${one.author ? ` · ${t('by', { author: one.author })}` : ''}`}
      path={[[t('title'), '/catalog']]}
      actions={one.type === 'Application' && one.enabled && <AddButton packageId={one.id} environment={environment} />}
    >
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, md: 8 }}>
          <Stack>
            <Card>
              <Title order={2} mb="sm">
                {t('about')}
              </Title>
              <Told text={one.description || t('noDescription')} />
            </Card>
            <Readme packageId={one.id} />
            <Card>
              <Title order={2} mb="sm">
                {t('classes')}
              </Title>
              <Reference one={one} />
            </Card>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 4 }}>
          <Stack>
            <Card>
              <Facts one={one} />
            </Card>
            <Needs one={one} />
            {supplier.Name && (
              <Card>
                <Title order={2} mb="xs">
                  {t('supplier')}
                </Title>
                <Text fw={600}>{link && /^https?:\/\//.test(link) ? <External href={link}>{supplier.Name}</External> : supplier.Name}</Text>
                <Text size="sm">{supplier.Summary}</Text>
                <Text size="sm" c="dimmed">
                  {supplier.Description}
                </Text>
              </Card>
            )}
            {(versions.data?.length ?? 0) > 1 && (
              <Card>
                <Title order={2} mb="xs">
                  {t('versions')}
                </Title>
                <List size="sm" spacing={4}>
                  {versions.data?.map((other) => (
                    <List.Item key={other.id}>
                      {other.id === one.id ? (
                        <strong>{other.version}</strong>
                      ) : (
                        <Link to="/catalog/$packageId" params={{ packageId: other.id }} search={environment ? { environment } : {}}>
                          {other.version}
                        </Link>
                      )}
                    </List.Item>
                  ))}
                </List>
              </Card>
            )}
          </Stack>
        </Grid.Col>
      </Grid>
    </Page>
  );
}

/** A text with Markdown. Elements are made of it; HTML in it stays text, pictures of other places are not loaded. */
function Told({ text }: { text: string }) {
  return (
    <div className={classes.text}>
      <Markdown skipHtml={false} disallowedElements={['img']} unwrapDisallowed remarkPlugins={PLUGINS} components={PARTS}>
        {text}
      </Markdown>
    </div>
  );
}

const PLUGINS = [withTables];

// The page has its own title: the headings of a text are below it.
const PARTS: Components = {
  a: ({ href, children }) => <External href={href}>{children}</External>,
  h1: 'h3',
  h2: 'h3',
  h3: 'h4',
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
  table: ({ children }) => (
    <div className={classes.scroll} tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
};

function Readme({ packageId }: { packageId: string }) {
  const t = useTexts(messages);
  const { data: readme } = useQuery(readmeQuery(packageId));
  if (!readme?.text.trim()) return null;
  return (
    <Card component="section" aria-label={t('readme')}>
      <Title order={2} mb="sm">
        {t('readme')}
      </Title>
      {readme.markdown ? (
        <Told text={readme.text} />
      ) : (
        <pre className={classes.plain} tabIndex={0}>
          {readme.text}
        </pre>
      )}
    </Card>
  );
}

function Facts({ one }: { one: Package }) {
  const t = useTexts(messages);
  return (
    <Table variant="vertical" layout="fixed" withRowBorders={false} className={classes.facts}>
      <Table.Tbody>
        <Fact name={t('fqn')}>
          <Fqn name={one.fully_qualified_name} />
        </Fact>
        <Fact name={t('kind')}>{one.type}</Fact>
        <Fact name={t('version')}>{one.version}</Fact>
        <Fact name={t('updated')}>
          <When at={one.updated} />
        </Fact>
        {one.signature && <Fact name={t('signedBy')}>{one.signature.signer ?? t('unknownSigner', { key: one.signature.key })}</Fact>}
        {one.categories.length > 0 && <Fact name={t('categories')}>{one.categories.join(', ')}</Fact>}
        {one.tags.length > 0 && (
          <Fact name={t('tags')}>
            <Group gap={4}>
              {one.tags.map((tag) => (
                <Badge key={tag} variant="default" size="sm" radius="sm" tt="none" fw={500}>
                  {tag}
                </Badge>
              ))}
            </Group>
          </Fact>
        )}
      </Table.Tbody>
    </Table>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <Table.Tr>
      <Table.Th w={110}>{name}</Table.Th>
      <Table.Td className={classes.wrap}>{children}</Table.Td>
    </Table.Tr>
  );
}

function External({ href, children }: { href: string | undefined; children: React.ReactNode }) {
  if (!href || !/^(https?:\/\/|mailto:)/i.test(href)) return <span>{children}</span>;
  return (
    <Anchor href={href} target="_blank" rel="noopener noreferrer nofollow" inherit underline="always">
      {children}
    </Anchor>
  );
}
