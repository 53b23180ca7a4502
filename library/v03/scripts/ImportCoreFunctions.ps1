# Loaded before other scripts of a plan: errors stop the command, and messages have a time.

$ErrorActionPreference = 'Stop'

function Write-Log {
    param([Parameter(Mandatory)] [string] $Message, [string] $Level = 'INFO')
    $line = '{0:u} {1} {2}' -f (Get-Date).ToUniversalTime(), $Level, $Message
    $folder = if ($env:ProgramData) { Join-Path $env:ProgramData 'Murano' } else { [IO.Path]::GetTempPath() }
    if (-not (Test-Path $folder)) { New-Item -ItemType Directory -Path $folder | Out-Null }
    Add-Content -Path (Join-Path $folder 'plans.log') -Value $line
}

function ConvertTo-Credential {
    param([Parameter(Mandatory)] [string] $UserName, [Parameter(Mandatory)] [string] $Password)
    $secret = ConvertTo-SecureString -String $Password -AsPlainText -Force
    New-Object System.Management.Automation.PSCredential($UserName, $secret)
}

function Install-Feature {
    # Installs what is not installed yet.
    param([Parameter(Mandatory)] [string[]] $Name)
    Import-Module ServerManager
    foreach ($one in $Name) {
        if (-not (Get-WindowsFeature -Name $one).Installed) {
            Write-Log "Installing the feature $one"
            Add-WindowsFeature -Name $one -IncludeManagementTools | Out-Null
        }
    }
}
