#ps1_sysnative
# Writes the agent's configuration and starts its service; the image has the agent.
$ErrorActionPreference = 'Stop'
$directory = 'C:\Murano\Agent'
$config = '%AGENT_CONFIG_BASE64%'
$name = '%INTERNAL_HOSTNAME%'
$server = '%MURANO_SERVER_ADDRESS%'
$certificate = '%CA_ROOT_CERT_BASE64%'

New-Item -ItemType Directory -Force -Path $directory | Out-Null
if ($certificate -ne '') {
  $file = Join-Path $directory 'ca_certs.cer'
  [IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($certificate))
  Import-Certificate -FilePath $file -CertStoreLocation Cert:\LocalMachine\Root | Out-Null
}
$file = Join-Path $directory 'WindowsAgent.exe.config'
[IO.File]::WriteAllBytes($file, [Convert]::FromBase64String($config))
[Environment]::SetEnvironmentVariable('MURANO_SERVER', $server, 'Machine')

Set-Service -Name 'Murano Agent' -StartupType Automatic
Restart-Service -Name 'Murano Agent'
if ($env:COMPUTERNAME -ne $name) {
  Rename-Computer -NewName $name -Force -Restart
}
